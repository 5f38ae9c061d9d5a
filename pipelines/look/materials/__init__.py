"""`answermill materials`: the bill of materials of what ships, a run, a checkpoint, or a data set."""
