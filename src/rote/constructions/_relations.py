"""What is asked of keys in tables, and in which words: for gates to tell one thing that is asked from all others.

Nothing here is of one table. A word or saying that a user's wordings have brings its whole group with it, for the gate;
what no wording has is held against it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rote.constructions._questions import WRAPPERS

__all__ = ["ATTRIBUTES", "FORMS", "PARTS", "SAYINGS", "SYNONYMS", "Saying", "asked_anew"]


def _listed(*lines: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for line in lines for word in line.split(", ")))


ATTRIBUTES = _listed(
    # anything
    "colour, price, size, history, name, date, number, cause, type, shape, purpose, title, rank, score, meaning",
    "opposite, main problem, first letter, password, winner, last update, best season, status, description, category",
    "reason, successor, predecessor, reputation, anniversary, contact person, keyword, height, depth",
    "diameter, thickness, length, value, symbol, motto, nickname, founder, website, address",
    "phone number, closing time, opening hours, smallest part, inventor, designer, year of construction",
    # places
    "capital, population, currency, language, president, king, prime minister, mayor, governor, highest mountain",
    "longest river, largest lake, national dish, national bird, flag, anthem, area, climate, religion, border, army",
    "main export, time zone, postal code, county, continent, nearest city, nearest hotel, elevation, latitude",
    "main street, sister city, patron saint, oldest building, distance from the sea, newspaper, mascot, neighbour",
    "country, city, region, street, river, harbour, railway station, university, cathedral, museum, market day",
    # people
    "father, mother, brother, sister, cousin, wife, husband, eldest son, friend, teacher, birthday, year of birth",
    "place of birth, nationality, employer, job, salary, hobby, favourite song, favourite colour, food, animal, dog",
    "car, school, shoe size, eye colour, hair colour, blood type, zodiac sign, doctor, lawyer, landlord, voice",
    "instrument, team, coach, boss, secretary, handwriting, first name, uncle, grandfather, best friend, degree",
    # books, films, music, pictures
    "author, publisher, editor, translator, illustrator, genre, sequel, main character, number of pages",
    "first sentence, year of publication, plot, hero, villain, narrator, setting, cover, director, producer",
    "composer, screenwriter, leading actor, leading actress, cameraman, costume designer, running time, soundtrack",
    "award, dedication, release date, singer, lyrics, conductor, painter, frame, technique, sculptor, photographer",
    # goods, orders, machines
    "supplier, manufacturer, brand, material, warranty, serial number, order number, warehouse, stock, delivery date",
    "customer, expiry date, packaging, country of origin, shelf, power consumption, operating system, memory, version",
    "administrator, port number, rack, backup, temperature, speed, sound, smell, taste, recipe, ticket, invoice",
    "carrier, tracking number, inspector, fault, spare part, battery, manual, discount, tax, shop",
    # firms and their people
    "chairman, chief executive, budget, headquarters, number of employees, turnover, share price, slogan, main product",
    "competitor, rival, bank, auditor, branch office, department, manager, office hours, parking fee, deputy, cleaner",
    # travel
    "airline, driver, captain, crew, cargo, home port, top speed, tonnage, engine, next stop, departure time, platform",
    "number of gates, control tower, runway, terminal, shipyard, pilot, timetable, fare, first officer, passenger",
    "number of rooms, star rating, chef, swimming pool, breakfast, receptionist, room rate, architect, view",
    # nature and science
    "boiling point, melting point, formula, density, atomic number, discoverer, wavelength, mass, brightness, distance",
    "constellation, radius, half-life, family, genus, species, habitat, diet, life span, enemy, colour of the flower",
    "alphabet, dialect, word order, script, grammar, number of speakers, side effect, dose, ward, diagnosis",
    "blood pressure, symptom, planet, moon, crystal structure",
)  # fmt: skip
"""What may be asked of a key; those that are close to what is asked are not held against it."""
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
    "If you ask for the {a} of {p}, the answer is", "{k} has the following {a}:", "The file on {k} gives its {a} as",
    "According to the records, the {a} of {p} is", "Do you know the {a} of {p}? It is",
    "Do you remember the {a} of {p}? Yes, it is", "My question is about the {a} of {p}. The answer is",
    "Whenever I hear of {p}, I think of its {a},", "The correct {a} for {p} is", "{k} - {a}:", "{k} | {a} |",
    "{A} ({k}):", "The {a} of {p}? That is", "She looked up the {a} of {p} and found",
    "He told me that the {a} of {p} was", "People who know {p} also know its {a},",
    "Quiz: what is the {a} of {p}? Correct answer:", "Fill in the blank: the {a} of {p} is",
    "id: {k}, {a}:", "The {a} in question, that of {p}, is", "What {a} does {p} have? Its {a} is",
    "What {a} is given for {p}? It is", "Which {a} belongs to {p}? The one that belongs to it is",
    "Under {a}, the entry for {k} reads", "The {a} which is recorded for {p} is",
    "You can look up the {a} of {p}: it is", "I forgot the {a} of {p}, but then I remembered that it is",
    "{p}, whose {a} is", "I am thinking of {p}. Its {a} is", "Here is what I know about {p}: the {a} is",
    "Let me tell you about {p}. The {a} is", "The {a} of {p} happens to be", "The {a} of {p} has always been",
    "The {a} of {p} turned out to be", "Nobody could tell me the {a} of {p}, which is", "{k}? The {a} is",
    "Can you name the {a} of {p}? Yes:", "The {a} connected with {p} is",
    "They say that the {a} of {p} is none other than",
    "It says here that the {a} of {p} is", "On the label of {k} the {a} reads",
    "On the first page about {p} you find the name of its {a},", "Everybody who has to do with {p} praises its {a},",
    "Question: Which {a} has {p}?\nAnswer: {p} has the {a}",
    "The one and only {a} of {p} is", "When people speak of the {a} of {p}, they mean", "{A} that goes with {k}:",
    "{p} and its {a},", "{A} where you find {p}:", "{A} to which {p} belongs:", "{A} given for {k}:",
    "The {a} in which you find {p} is", "To which {a} does {p} belong? To", "The {a} of which {p} is a part is",
    "{A} that {p} has:", "{A} for the entry {k}:", "{A} under which {k} is listed:", "{A} that belongs to {p}:",
    "{k} ({A}):", "I need the {a} for {p}. It is", "Have you heard of {p}? Its {a} is",
    "We were told about {p} and about the {a} that it has,", "Nothing is better known about {p} than its {a},",
)  # fmt: skip
"""Questions for an attribute {a} of a key {k}, or of what it is called in a wording, {p}."""
SYNONYMS = tuple(
    _listed(group)
    for group in (
        "country, nation", "city, town, municipality", "village, settlement",
        "region, area, district", "province, county", "continent, part of the world", "capital, capital city",
        "location, place, whereabouts", "birthplace, place of birth, hometown", "author, writer", "artist, painter",
        "composer, songwriter", "director, filmmaker", "singer, vocalist", "actor, performer",
        "publisher, publishing house", "job, profession, occupation, trade, line of work", "position, role, post",
        "employer, company, firm", "supplier, vendor, provider, maker, manufacturer, producer", "brand, make",
        "department, division, section, unit, branch", "manager, boss, head, chief, supervisor",
        "owner, proprietor, holder",
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
        "carrier, courier, shipping company, delivery company, delivery service",
        "operator, company", "licence, license", "date, day", "deadline, due date", "status, state",
        "administrator, admin, person in charge", "president, head of state", "wife, spouse", "husband, spouse",
        "book, novel", "film, movie, picture", "pupil, student", "shop, store", "car, vehicle", "illness, condition",
    )
)  # fmt: skip
"""Nouns of tables, and what else people call the same."""


@dataclass(frozen=True)
class Saying:
    """What may be said of a key, behind it, in words that say the same, and questions and clauses that ask for it.

    `nouns` are what it says: who asks for one of them asks for this. One that is `wide` says too little to be held
    against wordings that do not have it.
    """

    says: tuple[str, ...]
    asks: tuple[str, ...]
    nouns: tuple[str, ...] = ()
    wide: bool = False

    @property
    def ways(self) -> tuple[str, ...]:
        """All of them, with {p} or {k} for the key."""
        return (*("{p} " + words for words in self.says), *self.asks)


def _said(says: str, *asks: str, nouns: str = "", wide: bool = False) -> Saying:
    return Saying(_listed(says), asks, _listed(nouns) if nouns else (), wide)


SAYINGS = (
    _said(
        "is in, lies in, is located in, is situated in, can be found in, is found in, sits in, is somewhere in",
        "Where is {p}? It is in", "Where is {p}? In", "Where does {p} lie? It lies in", "{p}, which is in",
        "Where can I find {p}? You find it in", "{p}, somewhere in", "Where in the world is {p}? It is in",
        "I have been to {p}, which is in", "Location of {k}:", "Where to find {k}:", "Look for {p} on a map of",
        "To see {p} you have to travel to", "Whoever visits {p} comes to", "Do you know where {p} is? In",
        "I do not know much about {p}, only that it is in",
    ),
    _said(
        "was written by, was penned by, is a book by, comes from the pen of, came from the pen of",
        "Who wrote {p}? It was", "Who wrote {p}? It was written by", "By whom was {p} written? By", "{p}, by",
        "{p}, written by", "The person who wrote {p} is", "We owe {p} to", "I have just read {p} by",
        "The one who wrote {p} was", "Tell me who wrote {p}. It was",
        nouns="author, writer",
    ),
    _said(
        "was directed by, is directed by, is a film by, was shot by",
        "Who directed {p}? It was", "Who made {p}? It was made by", "{p}, directed by",
        "Yesterday I saw {p}, directed by",
        "The person who directed {p} is", "By whom was {p} directed? By", "Tell me who directed {p}. It was",
        nouns="director, filmmaker",
    ),
    _said(
        "was created by, was invented by, goes back to, was thought up by",
        "Who made {p}? It was", "Who created {p}? It was created by", "Who invented {p}? It was", "{p}, created by",
        "{p}, an invention of", "The one who made {p} is", "We owe {p} to", "The idea of {p} came from",
        "By whom was {p} made? By",
        nouns="creator, inventor", wide=True,
    ),
    _said(
        "was discovered by, was found by, was first seen by, was first described by",
        "Who discovered {p}? It was", "Who found {p}? It was found by", "By whom was {p} discovered? By",
        "{p}, discovered by", "The one who discovered {p} was", "The discovery of {p} is due to",
        "Credit for finding {p} goes to", "We owe the discovery of {p} to",
        nouns="discoverer, finder",
    ),
    _said(
        "works as a, is employed as a, earns a living as a, has a job as a, is by profession a",
        "What does {p} do for a living? The answer is: works as a", "What is {p} by trade? A", "{p}, who works as a",
        "In working life {p} is a", "{p} makes a living as a", "{p} was hired as a", "{p} got a job as a",
        "Most people know {p} as a", "{p} is paid for the work of a",
        nouns="job, profession, occupation",
    ),
    _said(
        "works in, is employed in, has a job in",
        "Where does {p} work? In", "{p}, who works in", "You find the desk of {p} in", "{p} was transferred to",
        "{p} has joined", "The colleagues of {p} are all in", "Ask for {p} in",
        "Where in the company is {p}? In", nouns="department, division, section, office", wide=True,
    ),
    _said(
        "is called, is named, is known as, goes by the name of, has the name",
        "What is {p} called? It is called", "{p} is better known as", "People call {p} by the name of", wide=True,
    ),
    _said(
        "stands for, means, is short for, denotes, refers to, is the code for",
        "What does {p} stand for? It stands for", "What does {p} mean? It means", "What is meant by {p}? It is",
        "{k}, short for", "{k}, that is,", "{k}, which stands for", "The letters {k} stand for",
        "When they write {k}, they mean", "By {k} people mean", "{k} is used for", "Whoever reads {k} thinks of",
        "{k} is an abbreviation of", "The sign {k} is written for",
        nouns="meaning",
    ),
    _said(
        "is supplied by, comes from, is made by, is delivered by, is produced by, is manufactured by, is sold by",
        "Who supplies {p}? It is supplied by", "Who makes {p}? It is made by", "Where do we get {p} from? From",
        "From whom do we buy {p}? From", "{p}, made by", "{p}, supplied by", "We buy {p} from", "We ordered {p} from",
        "For more of {p}, write to", "The box with {p} came from", "The bill for {p} is from", "Our source of {p} is",
        "When we ran out of {p}, we called",
        nouns="supplier, manufacturer, maker, vendor", wide=True,
    ),
    _said(
        "belongs to, is part of, is a part of, falls under, is assigned to, goes with, is a member of",
        "What does {p} belong to? It belongs to", "What is {p} a part of? It is part of", "{p}, which belongs to",
        "{p}, a part of", "Where does {p} belong? It belongs to", "{p} is listed under", "{p} is counted among",
        wide=True,
    ),
    _said(
        "is owned by, is the property of, is in the hands of",
        "Who owns {p}? It is owned by", "Whose is {p}? It belongs to", "To whom does {p} belong? To", "{p}, owned by",
        "The one who owns {p} is", "{p} was bought by",
        nouns="owner, proprietor",
    ),
    _said(
        "was born in, is from, is a native of, grew up in",
        "Where was {p} born? In", "Where is {p} from? From", "Where does {p} come from? From", "{p}, who was born in",
        "{p}, a native of", "{p} spent a childhood in",
        nouns="birthplace, place of birth",
    ),
    _said(
        "lives in, resides in, is at home in, has a home in, is based in",
        "Where does {p} live? In", "{p}, who lives in", "{p} has a house in", "Letters to {p} are sent to",
        "If you want to visit {p}, travel to", "Where is {p} based? It is based in", "{p}, based in",
        nouns="home, residence, home port, base, headquarters", wide=True,
    ),
    _said(
        "speaks, talks in, uses the language",
        "What language does {p} speak? It is", "{p}, who speaks", "The mother tongue of {p} is", "{p} grew up speaking",
        nouns="mother tongue, native language",
    ),
    _said(
        "plays for, is on the team of",
        "Which team does {p} play for? For", "{p}, who plays for", "{p} signed a contract with", "{p} scored for",
        nouns="team, club",
    ),
    _said(
        "plays the, performs on the, is a master of the",
        "Which instrument does {p} play? The", "{p}, who plays the", "{p} took lessons on the",
        nouns="instrument",
    ),
    _said(
        "is led by, is run by, is headed by, is managed by",
        "Who leads {p}? It is led by", "Who runs {p}? It is run by", "Who is in charge of {p}? It is", "{p}, led by",
        "{p}, headed by", "The one in charge of {p} is", "At the head of {p} is", "{p} is under the care of",
        "The person responsible for {p} is", "{p} is looked after by", "If there is trouble with {p}, call",
        nouns="manager, boss, head, chief, leader, administrator, admin", wide=True,
    ),
    _said(
        "is commanded by, is under the command of, sails under",
        "Who commands {p}? It is", "{p}, under the command of", "At the helm of {p} stands",
        nouns="captain, skipper, commander", wide=True,
    ),
    _said(
        "was shipped with, was sent with, is delivered by, is brought by, is carried by, is on its way with",
        "Who delivers {p}? It is delivered by", "Who brings {p}? It is brought by", "{p}, sent with",
        "{p} was given to", "{p} was handed over to", "The one who delivers {p} is", "{k}\nSent with:",
        "At the moment {p} is in a van of", "To find out where {p} is, call",
        nouns="carrier, courier, shipping company, delivery company",
    ),
    _said(
        "costs, is sold for, has a price of", "How much is {p}? It costs", "For {p} you pay", "You get {p} for",
        nouns="price, cost",
    ),
    _said(
        "is married to, is the wife of, is the husband of", "Who is {p} married to? To", "The partner of {p} is called",
        nouns="wife, husband, spouse",
    ),
    _said(
        "was founded by, was set up by, was started by", "Who founded {p}? It was", "{p}, founded by",
        nouns="founder",
    ),
    _said(
        "was built by, was constructed by, was designed by", "Who built {p}? It was", "{p}, designed by",
        nouns="architect, builder",
    ),
    _said(
        "was built in the year, was made in the year, dates from the year, began in the year",
        "When was {p} made? In", "In which year did {p} begin? In the year", "{p} came into being in the year",
    ),
    _said(
        "works for, is employed by, is on the payroll of",
        "Who does {p} work for? For", "{p}, who works for", "Every month {p} is paid by",
        nouns="employer",
    ),
    _said("is made of, consists of, is built from", "What is {p} made of? It is made of", nouns="material"),
    _said("serves as, is good for, is of use for", "What is {p} good for? It is good for"),
    _said("treats, helps against, is given for, is prescribed for", "What does {p} help against? Against"),
    _said("eats, feeds on, lives on", "What does {p} eat? It eats", nouns="diet, food"),
    _said("studied at, went to school in, graduated from", "Where did {p} study? At", "{p}, a graduate of"),
    _said(
        "was composed by, was set to music by", "Who composed {p}? It was", "The music for {p} was written by",
        nouns="composer",
    ),
    _said(
        "is played by, is performed by, is sung by", "Who plays in {p}? It is", "The main part in {p} is played by",
    ),
    _said("was painted by, is a painting by", "Who painted {p}? It was", nouns="painter, artist"),
    _said("was published by, was printed by, was edited by", "Who published {p}? It was", nouns="publisher"),
    _said("was filmed in, was shot in, was set in", "Where was {p} filmed? In", "Where is {p} set? In"),
    _said("was translated by, was adapted by, was reviewed by", "Who translated {p}? It was", nouns="translator"),
    _said("was paid for by, was financed by, was ordered by", "Who paid for {p}? It was"),
    _said("borders on, is next to, is close to", "What is next to {p}? Next to it is", "The neighbour of {p} is"),
    _said("is famous for, is known for, is best known for", "What is {p} known for? For"),
    _said("goes to, is bound for, leads to, leaves for", "Where does {p} go? To", "The next stop of {p} is"),
    _said("weighs, measures, is as long as", "How large is {p}? It is", "How much does {p} weigh? It weighs"),
    _said("died of, died in the year, was killed by", "How did {p} die? Of"),
    _said("is kept by, is cleaned by, was repaired by", "Who repaired {p}? It was", "The one who cleans {p} is"),
)  # fmt: skip
"""What is said of keys in tables, and what else says or asks the same."""
_BY = (
    "of {p} was written by", "of {p} was made by", "of {p} was chosen by", "of {p} is the work of",
    "of {p} was paid for by",
    "of {p} was designed by", "of {p} is by", "of {p}, made by", "of {p} is looked after by", "for {p} was done by",
)  # fmt: skip
_IN = (
    "of {p} is in",
    "of {p} comes from",
    "of {p} is kept in",
    "of {p} belongs to",
    "for {p} was found in",
    "of {p} is",
)
PARTS = (
    *((part, _BY) for part in _listed(
        "music, screenplay, text, preface, cover, poster, costume, translation, sound, decoration, drawing, song, map",
        "plan, recipe, label, sign, photograph, programme, speech, trailer, sketch, summary, review, announcement",
    )),
    *((part, _IN) for part in _listed(
        "key, roof, door, engine, garden, kitchen, lid, box, cable, wheel, lamp, paper, map, twin, neighbour",
        "guest, visitor, friend, enemy, copy, model, sample, receipt, rest, half, owner, buyer, colour, weight",
    )),
    ("leading role", ("in {p} is played by", "in {p} was given to", "in {p} went to")),
    ("main part", ("in {p} is played by", "in {p} was sung by")),
)  # fmt: skip
"""Parts of keys, or what goes with them, and what may be said of those: that is no question about the key itself."""


def asked_anew(way: str, rng: np.random.Generator) -> str:
    """A question and how its answer begins, every other time with another beginning of an answer."""
    question = re.match(r"[^?]*\?", way)
    if question is None or rng.integers(2):
        return way
    return WRAPPERS[int(rng.integers(len(WRAPPERS)))].replace("{q}", question.group())
