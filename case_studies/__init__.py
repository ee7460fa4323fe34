"""Case studies: a claim, a command and a picture each."""
