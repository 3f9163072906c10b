"""Programs that run where the GPU libraries are: in the image, or by an installed Python."""
