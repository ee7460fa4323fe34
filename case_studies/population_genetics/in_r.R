# Rscript in_r.R TASK FOLDER [TOLERANCE]: what abc or abcrf says of FOLDER/others.csv by FOLDER/learnt.csv.
# Columns begin with "p." (parameters), "s." (statistics), or are "model". Seconds are of the processor.

asked <- commandArgs(trailingOnly = TRUE)
task <- asked[1]
setwd(asked[2])
tolerance <- as.numeric(asked[3])
set.seed(1)
package <- if (task %in% c("abcrf", "forests")) "abcrf" else "abc"
suppressPackageStartupMessages(library(package, character.only = TRUE))

learnt <- read.csv("learnt.csv")
others <- read.csv("others.csv")
columns <- function(table, kind) table[, startsWith(names(table), kind), drop = FALSE]
statistics <- columns(learnt, "s.")
parameters <- columns(learnt, "p.")
targets <- columns(others, "s.")

seconds <- function() sum(proc.time()[c(1, 2, 4, 5)])

votes <- function() {
  training <- cbind(model = factor(learnt$model), statistics)
  forest <- abcrf(model ~ ., data = training)
  fitted <<- seconds()
  found <- predict(forest, targets, training)
  levels <- levels(training$model)
  matrix(found$vote, ncol = length(levels), dimnames = list(NULL, levels)) / forest$model.rf$num.trees
}

probabilities <- function() {
  by <- function(i) {
    found <- postpr(as.numeric(targets[i, ]), as.character(learnt$model), statistics,
                    tol = tolerance, method = "mnlogistic", trace = FALSE)
    found$pred
  }
  t(sapply(seq_len(nrow(targets)), by))
}

draws <- function(size = 1000) {
  by <- function(i) {
    found <- abc(as.numeric(targets[i, ]), parameters, statistics, tol = tolerance, method = task)
    taken <- sample(nrow(found$adj.values), size, replace = TRUE, prob = found$weights)
    cbind(row = i - 1, found$adj.values[taken, ])
  }
  do.call(rbind, lapply(seq_len(nrow(targets)), by))
}

moments <- function() {
  trained <- lapply(names(parameters), function(name) {
    training <- cbind(response = parameters[[name]], statistics)
    list(forest = regAbcrf(response ~ ., data = training), training = training)
  })
  fitted <<- seconds()
  each <- lapply(trained, function(one) predict(one$forest, targets, one$training))
  found <- do.call(cbind, lapply(each, function(one) cbind(one$expectation, one$variance)))
  kinds <- paste(c("mean", "variance"), rep(names(parameters), each = 2), sep = ".")
  matrix(found, ncol = length(kinds), dimnames = list(NULL, kinds))
}

began <- seconds()
fitted <- began
found <- switch(task, abcrf = votes(), mnlogistic = probabilities(), loclinear = , neuralnet = draws(),
                forests = moments())
ended <- seconds()
write.csv(found, "found.csv", row.names = FALSE)
write.csv(data.frame(fit = fitted - began, rest = ended - fitted), "seconds.csv", row.names = FALSE)
