use lake
