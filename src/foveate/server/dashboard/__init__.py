"""The dashboard: what the model sees, in a browser. The server renders the pages; htmx swaps parts of them.

/                     sessions and search                /ui/costs       costs, cache and provider health
/ui/sessions/{id}     a session: picture, turns, chat    /ui/knowledge   review of what was learned
/ui/compare           strategies side by side            /ui/agents      agents as a tree
/ui/import            transcripts                        /ui/settings    settings, doctor, file cabinet
"""
