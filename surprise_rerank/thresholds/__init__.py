"""What a good score is: background questions, thresholds and calibrated probabilities."""
