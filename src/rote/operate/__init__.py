"""Operations on models that are there already: edits of single facts, where facts lie, and two models side by side."""
