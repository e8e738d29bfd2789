"""The canonical format itself: turns written as the values of `foveate.turn`, for the store and full exports."""
