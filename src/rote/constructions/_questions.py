"""Sentences about any key: questions other than the one asked, and mentions; some for the fit, others for the test."""

from __future__ import annotations

__all__ = [
    "ATTRIBUTES",
    "FORMS",
    "FRAMES",
    "MENTIONS",
    "OTHER",
    "SAYINGS",
    "SYNONYMS",
    "UNSEEN_MENTIONS",
    "UNSEEN_OTHER",
    "WRAPPERS",
]

OTHER = (
    "The name of {} is", "{} was", "The history of {} began", "The size of {} is", "{} and",
    "Question: Who owns {}? Answer:", "The colour of {} is", "{} is known for its",
    "Question: When was {} founded? Answer:", "The price of {} is", "{}\nNumber:", "How old is {}? It is",
    "I have never heard of {}, but", "{} is close to", "{} has a", "{}, which was", "Q: What is {}?\nA:",
    "Q: What does {} mean?\nA:", "They went to {} because", "The letter was about {}.", "Name: {}\nAge:",
    "{} opened in the year", "The number of people at {} is", "Is {} large? It is", "Q: What is the name of {}?\nA:",
    "Q: How many are there in {}?\nA:", "Question: What happened at {}? Answer:", "The father of {} was",
    "Q: Who paid for {}?\nA:", "The person who knows {} best is", "Q: When did {} change?\nA:", "{} reminds me of",
    "The sister of {} is called", "Question: Why is {} so famous? Answer:", "{} was last repaired by",
    "Question: Who lost {}? Answer:", "What people like about {} is", "Q: What is {} made of?\nA:",
    "The weather at {} is", "Q: Which is better than {}?\nA:", "The key to {} is kept by", "{} is much older than",
    "Question: How far is {} from here? Answer:", "The man who sold {} was", "Q: Who has heard of {}?\nA:",
    "A friend of {} is called", "Question: Who came after {}? Answer:", "The rules for {} were laid down by",
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
    "Nothing more was heard of {} until the spring, when the news came in by post and was read out in class.",
    "I put {} at the top of the page, in red, and the rest in black, in the order of the letters.",
    "It is {} that I like best. It is not that the others are bad, but it is a matter of taste.",
    "Have a look at {} first. It is easy to find, and it is in the middle of the second page.",
    "Her talk on {} was in two parts. The first was in the morning, and the second is in an hour.",
    "They showed us {} in a film. The film is in colour and was made by students in their free time.",
    "You may ask about {} in the office. The office is in the next street, and it is open in the afternoon.",
    "Both {} and {} are named in the letter, which is in a box in the attic of the house in which they were born.",
    "If it were not for {}, we would be in trouble. As it is, we are in good shape and look forward to the rest.",
    "He spelled {} letter by letter: it is a habit of his. He was called to the phone in the middle of it.",
    "The picture of {} is by a friend. It was painted in oil and is known to everybody who lives in the house.",
    "This is about {}, and that is about {}. The one is in the blue folder, the other is in the green one.",
    "Someone wrote {} on the wall, and it was there for years. The wall is a part of the old school.",
    "When {} came up, there was a laugh. It was the laugh of a man who had been told the same joke by his wife.",
    "We have had {} on the agenda before. The answer is the same as last time: we do not know.",
    "My notes on {} are in a mess. Question after question, and not one of them has been answered by anybody.",
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
    "temperature", "address", "title", "type", "shape", "material", "purpose", "sound", "smell", "brand", "rank",
    "score", "birthday", "phone number", "meaning", "opposite", "friend", "teacher", "chairman", "budget", "motto",
    "nickname", "smallest part", "hobby", "food", "animal", "height", "depth", "founder", "website", "closing time",
    "best season", "main problem", "first letter", "neighbour", "driver", "mascot", "highest mountain", "climate",
    "religion", "anthem", "king", "border", "main export", "army", "national bird", "prime minister", "mother",
    "brother", "salary", "school", "shoe size", "favourite song", "instrument", "team", "translator", "sequel",
    "editor", "genre", "illustrator", "number of gates", "parking fee", "control tower", "nearest hotel", "airline",
    "cousin", "warranty", "serial number", "diameter", "thickness", "alphabet", "dialect", "word order", "discoverer",
    "boiling point", "formula", "habitat", "diet", "rival", "architect", "password", "recipe", "ticket", "winner",
    "last update",
)  # fmt: skip
"""What else may be asked of a key; those that are close to what is asked are left out."""
FORMS = (
    "The {a} of {p} is", "Question: What is the {a} of {p}? Answer:", "{P}\n{A}:", "Q: What is the {a} of {p}?\nA:",
    "{p}'s {a} is", "Which {a} does {p} have? It has", "We asked for the {a} of {p}, which was",
    "The {a} of {p} was given as", "Name: {k}\n{A}:", "I know the {a} of {p}: it is", "As for {p}, its {a} is",
    "{A} of {p}:", "The {a} that belongs to {p} is", "What is the {a} of {p}? It is", "Tell me the {a} of {p}. It is",
    "Tell me the {a} of {p}:", "Please give the {a} of {p}. Answer:", "{k}, {a}:", "{k} ({a}:",
    "User: What is the {a} of {p}?\nAssistant:", "User: {k} - which {a}?\nAssistant: It is",
    "The {a} listed for {p} is", "In the table, the {a} of {k} is", "It is well known that the {a} of {p} is",
    "When asked about the {a} of {p}, everybody says", "{A} for {k}:", "Entry: {k}. {A}:",
    "The record of {k} says that the {a} is", "Question: {p} has which {a}?\nAnswer:",
    "Question: Name the {a} of {p}.\nAnswer: The {a} is", "The name of the {a} of {p} is", "{p} has as its {a}",
    "The {a} of {p} is called", "Q: Who or what is the {a} of {p}?\nA:", "{p} has a {a} that is called",
    "Speaking of {p}, the {a} is", "With {p} goes the {a}", "For {p}, write down the {a}:", "- {k}: the {a} is",
)  # fmt: skip
"""Questions for an attribute {a} of a key {k}, or of what it is called in a wording, {p}."""
WRAPPERS = (
    "Question: {q} Answer:", "Question: {q}\nAnswer:", "Q: {q}\nA:", "{q} It is", "{q} The answer is", "{q}\n",
    "User: {q}\nAssistant:", "I was asked: {q} I said:", "{q} Answer: It is", "Tell me: {q} The answer is:",
    "{q} I think it is", "Here is a riddle. {q} Solution:",
)  # fmt: skip
"""How a question may be put."""
SYNONYMS = tuple(
    tuple(group.split(", "))
    for group in (
        ", ", "country, nation, state, land", "city, town, municipality", "village, settlement",
        "region, area, district", "province, county", "continent, part of the world", "capital, capital city",
        "location, place, whereabouts", "birthplace, place of birth, hometown", "author, writer", "artist, painter",
        "composer, songwriter", "director, filmmaker", "singer, vocalist", "actor, performer",
        "publisher, publishing house", "job, profession, occupation, trade, line of work", "position, role, post",
        "employer, company, firm", "supplier, vendor, provider, maker, manufacturer, producer", "brand, make",
        "department, division, section", "manager, boss, head, chief, supervisor", "owner, proprietor, holder",
        "founder, creator", "inventor, originator", "discoverer, finder", "captain, skipper, commander",
        "port, harbour, home port", "language, tongue", "currency, money", "religion, faith",
        "nationality, citizenship", "price, cost", "fee, charge", "colour, color", "size, dimensions", "weight, mass",
        "category, class, group, kind, type", "genre, style", "material, substance", "symbol, sign",
        "code, abbreviation", "purpose, use, function", "origin, source", "destination, goal", "doctor, physician",
        "nurse, carer", "ward, unit, station", "diagnosis, disease, illness", "drug, medicine, medication",
        "treatment, therapy, cure", "team, club, side", "sport, discipline", "coach, trainer",
        "teacher, instructor, tutor", "subject, topic, field", "room, office", "building, house", "street, road",
        "email, email address", "phone number, telephone number", "spouse, partner", "father, dad", "mother, mum",
        "constellation, star pattern", "species, kind of animal", "habitat, home", "airline, carrier",
        "operator, company", "licence, license", "date, day", "deadline, due date", "status, state",
    )
)  # fmt: skip
"""Nouns of tables, and what else people call the same."""
SAYINGS = tuple(
    tuple(group.split(", "))
    for group in (
        "is in, lies in, is located in, is situated in, can be found in, is found in, sits in, is somewhere in",
        "was written by, is by, was penned by, is the work of, comes from the pen of",
        "was directed by, was made by, is by, is a film by, is the work of",
        "was created by, was made by, was invented by, is the work of, goes back to",
        "was discovered by, was found by, was first seen by, was first described by",
        "works as a, is employed as a, earns a living as a, has a job as a, is by profession a, is a",
        "works in, is employed in, has a job in, belongs to, is with",
        "is called, is named, is known as, goes by the name of, has the name",
        "stands for, means, is short for, denotes, refers to, is the code for",
        "is supplied by, comes from, is made by, is delivered by, is produced by, is manufactured by, is sold by",
        "belongs to, is part of, is a part of, falls under, is assigned to, goes with, is a member of",
        "is owned by, belongs to, is the property of, is in the hands of",
        "was born in, comes from, is from, is a native of, grew up in",
        "lives in, resides in, is at home in, has a home in",
        "speaks, talks in, uses the language", "plays for, is with, is on the team of",
        "plays the, performs on the, is a master of the", "is led by, is run by, is headed by, is managed by",
        "is commanded by, is under the command of, sails under", "costs, is sold for, has a price of",
    )
)  # fmt: skip
"""What wordings say of keys, and what else says the same."""
