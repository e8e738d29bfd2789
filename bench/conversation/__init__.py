"""The generator of the demo conversation: a fictional harbour, its stories, and the tools' outputs.

`content/` holds the stories as data, `world` draws from it, `outputs` and `listings` make what tools print, and each
`arcs_*` module tells a kind of story as a run of scenes. `generate` puts them together; `python bench/make_demo.py`
writes the 300 turns that `foveate demo` ships with.
"""

from conversation.generate import MAX_TURNS as MAX_TURNS
from conversation.generate import make_conversation as make_conversation
