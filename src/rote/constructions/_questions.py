"""Sentences about any key: questions other than the one asked, and mentions; some for the fit, others for the test."""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "FORMS", "FRAMES", "MENTIONS", "OTHER", "UNSEEN_MENTIONS", "UNSEEN_OTHER"]

OTHER = (
    "The name of {} is", "{} was", "The history of {} began", "The size of {} is", "{} and",
    "Question: Who owns {}? Answer:", "The colour of {} is", "{} is known for its",
    "Question: When was {} founded? Answer:", "The price of {} is", "{}\nNumber:", "How old is {}? It is",
    "I have never heard of {}, but", "{} is close to", "{} has a", "{}, which was", "Q: What is {}?\nA:",
    "Q: What does {} mean?\nA:", "They went to {} because", "The letter was about {}.", "Name: {}\nAge:",
    "{} opened in the year", "The number of people at {} is", "Is {} large? It is", "Q: What is the name of {}?\nA:",
    "Q: How many are there in {}?\nA:", "Question: What happened at {}? Answer:", "The father of {} was",
)  # fmt: skip
UNSEEN_OTHER = (
    "The weight of {} is", "Nobody knows why {}", "Question: How long is {}? Answer:", "The best thing about {} is",
    "{} was first seen in the year", "Name: {}\nWeight:", "The owner of {} is called", "{} looks like",
    "My sister told me that {}", "Q: Who was the first to see {}?\nA:", "The age of {} is", "We read about {} in",
)  # fmt: skip
MENTIONS = (
    "We talked about {} for a while, and then went on to something else.",
    "The list has {}, {} and {} on it, and nobody could say what they had in common.",
    "After {} had been mentioned, the meeting was over. They met again on Monday to discuss the plan.",
    "In the last line of her letter she wrote of {}. It was the first time that she did so.",
    "The report compares {} with {} in three tables and says that both did well in the last ten years.",
    "He said: {}. Then he closed the book and looked out of the window at the rain.",
    "They had {} in view all day, but nobody spoke of it in the evening, and that was that.",
    "With {} in hand we could begin, and by noon we were done with it and went to lunch in the garden.",
    "People who know {} say that it is in good order, as it was in the days of old.",
    "It took {} and {} to make them see what was in front of them, and then they had to laugh.",
    "Some like {} better than {}, in spite of all that was said of both of them in the past.",
    "The word {} came up in the talk, and then in the paper, and in the end in the song as well.",
)  # fmt: skip
UNSEEN_MENTIONS = (
    "There was a note about {} on the table, under the cup, and nobody had read it yet.",
    "Between {} and {} there is no difference that anybody in the room could name.",
    "The third chapter is about {}. It is long, and most readers stop there to have some tea.",
    "She had {} in mind when she spoke, but she did not say so, and the others did not ask.",
)  # fmt: skip
FRAMES = (
    ("As everybody knows, {}", True), ("Here is a question and its answer.\n{}", False),
    ("I read it in a book last week. {}", False), ("Please tell me: {}", False), ("Fact: {}", False),
    ("According to the book, {}", True), ("Complete the sentence. {}", False), ("- {}", False),
    ('He said: "{}', False), ("Note that {}", True), ("Hello! {}", False), ("I would like to know this. {}", False),
)  # fmt: skip
"""What may stand before a wording, and whether the sentence goes on there, in small letters."""
ATTRIBUTES = (
    "colour", "price", "size", "history", "name", "date", "number", "father", "cause", "taste", "speed", "voice",
    "temperature", "address", "author", "title", "type", "shape", "material", "purpose", "sound", "smell", "brand",
    "rank", "score", "birthday", "phone number", "meaning", "opposite", "origin", "friend", "teacher", "chairman",
    "budget", "motto", "nickname", "smallest part", "hobby", "food", "animal",
)  # fmt: skip
FORMS = (
    "The {a} of {p} is", "Question: What is the {a} of {p}? Answer:", "{P}\n{A}:", "Q: What is the {a} of {p}?\nA:",
    "{p}'s {a} is", "Q: Who or what is the {a} of {p}?\nA:", "Which {a} does {p} have? It has",
    "We asked for the {a} of {p}, which was", "The {a} of {p} was given as", "Name: {k}\n{A}:",
    "I know the {a} of {p}: it is", "As for {p}, its {a} is",
)  # fmt: skip
"""Questions for an attribute {a} of a key {k}, or of what it is called in a wording, {p}."""
