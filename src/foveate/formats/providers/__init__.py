"""Message formats: what a provider's API takes. Each module is one; the contract is `foveate.formats.MessageFormat`.

The messages of a context are put together in `foveate.context.render`.
"""
