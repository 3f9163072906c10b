"""What the processes of all engines need: the device, tensors without memory, stand-ins, compilers that are noted."""
