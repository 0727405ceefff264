set allowed_directories = [{folder:text}]
