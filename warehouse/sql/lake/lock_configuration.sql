set lock_configuration = true
