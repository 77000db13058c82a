"""What kumade prints with --json, as types: a module for each schema in schemas/."""
