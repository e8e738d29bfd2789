"""Message formats of the providers' APIs, one per module; the contract is `foveate.formats.MessageFormat`.

The messages of a context are assembled in `foveate.context.render`.
"""
