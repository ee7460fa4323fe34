"""Choice among models whose Bayes factors are known exactly."""
