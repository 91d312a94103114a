"""What tests of several rooms use: encoders, files, servers, hosts and programs."""
