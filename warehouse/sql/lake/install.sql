install {extension:text}
