"""Files that people write: image recipes, kernel sets, arches; read strictly. Pure."""
