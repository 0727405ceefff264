set enable_external_access = false
