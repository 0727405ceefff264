load {extension:text}
