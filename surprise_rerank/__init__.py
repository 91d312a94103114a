"""Re-ranking of Qdrant's candidates by the surprise score and by DynaMax."""
