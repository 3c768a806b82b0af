"""Schedule -> Program -> bytes, and back for the schedule document. Knows no synthesizer and no judge."""
