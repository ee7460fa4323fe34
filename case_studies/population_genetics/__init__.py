"""From data that population geneticists have to posteriors, against published ones and against the truth."""
