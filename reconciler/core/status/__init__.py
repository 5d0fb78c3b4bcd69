"""The files of the status branch, and the queue that is read from them."""
