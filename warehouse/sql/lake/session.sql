set timezone = 'UTC'
