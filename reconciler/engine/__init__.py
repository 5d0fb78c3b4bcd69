"""String the stages together: one pass, and the loop around it."""
