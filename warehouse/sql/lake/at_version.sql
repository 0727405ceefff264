at (version => {snapshot:fragment})
