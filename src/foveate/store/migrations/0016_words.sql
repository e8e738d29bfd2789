-- The words of each turn and the levels that keep them, by which a plan chooses levels; NULL: made before this version.

ALTER TABLE renditions ADD COLUMN words {blob};
