"""What a person writes: image recipes, kernel sets, arches; read strictly. Pure."""
