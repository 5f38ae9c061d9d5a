"""The commands of `answermill`, one module for each group of them. Importing one loads no model, Beam or
spaCy."""
