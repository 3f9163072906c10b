"""What is wrong with a Spark: what its machines, images, containers and logs show, judged by rules. Pure."""
