begin transaction
