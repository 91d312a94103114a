"""What computes a transformer's vectors: torch, or its graph in OpenVINO."""
