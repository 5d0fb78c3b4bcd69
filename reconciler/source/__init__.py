"""Git: read the desired state and the record, publish the status, tell when to look."""
