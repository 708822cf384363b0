"""The compiled modules, one per domain (hence over twelve). Imported by domains, system and formats alone."""
