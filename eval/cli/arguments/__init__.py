"""What the commands are given: places, documents, questions, filters."""
