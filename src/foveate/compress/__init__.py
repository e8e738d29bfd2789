"""From a raw turn to its lower fidelities: rules first, a model where one is configured, a guard at the end."""
