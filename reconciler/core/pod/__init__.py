"""The parts of a rendered pod: what we put in, what pod_config may not break, and the program that runs the job."""
