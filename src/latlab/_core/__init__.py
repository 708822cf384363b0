"""The compiled modules, one per domain. Imported by domains, system and formats alone."""
