"""What the demo conversation is made of: a fictional harbour, its stories, and the tools' outputs.

`content/` holds the stories as data, `world` draws from it, `outputs` and `listings` make what tools print, and each
`arcs_*` module tells a kind of story as a run of scenes. `foveate.demo.conversation` puts them together.
"""
