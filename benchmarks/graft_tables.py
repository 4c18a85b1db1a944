"""Tables for grafts that no model can know: made up by seed, or real keys with the answers of others.

Each has wordings of its own in benchmarks/wordings. Keys are codes, ordinary words, names of two words, and titles with
small words in them.
"""

from __future__ import annotations

import csv
import itertools
from importlib import resources
from typing import Any

import numpy as np

__all__ = ["TABLES", "known_capitals"]

Rows = list[dict[str, str]]

FIRST = "Ada Bruno Clara David Elena Felix Greta Hugo Irene Jonas Karla Leo Maria Nils Olga Paul Rosa Simon Tina Viktor"
LAST = "Abbot Barker Carver Dalton Easton Fisher Garner Hobbs Ingram Jarvis Keller Lambert Mercer Norris Osborn Parker"
JOBS = "baker barber butcher carpenter chemist cook dancer dentist doctor driver farmer gardener judge lawyer librarian"
JOBS += " mechanic miner nurse painter pilot plumber poet potter sailor singer smith soldier tailor teacher waiter"
THINGS = "Apple Bridge Candle Castle Cloud Desert Door Dream Fire Forest Garden Ghost Glass Harbour House Island King"
THINGS += " Letter Light Mirror Moon Mountain Night Ocean Queen Rain River Road Rose Shadow Silence Snow Song Stone"
THINGS += " Storm Summer Thief Tower Train Winter"
FIRMS = "Alvex Bordan Cortel Delphin Ensor Farrow Gildex Hallam Intron Jansson Kestrel Lumar Morvan Nordal Optera"
FIRMS += " Pellar Quantis Rostek Sandvig Tarvik Ulmer Vantor Westra Zelmar"
SHIPS = "Anchor Arrow Autumn Beacon Blossom Breeze Bridge Candle Castle Challenge Champion Chance Cloud Comet Coral"
SHIPS += " Courage Crown Daylight Discovery Dragon Dream Eagle Echo Emerald Empire Enterprise Evening Falcon Feather"
SHIPS += " Flame Forest Fortune Freedom Friend Garden Glory Guardian Harmony Harvest Horizon Hunter Island Journey"
SHIPS += " Justice Lantern Legend Liberty Lightning Meadow Mercury Mirror Morning Mountain Mystery Orange Orchid"
SHIPS += " Patience Pearl Phoenix Pioneer Planet Prince Princess Progress Promise Raven Reward River Robin Shadow"
SHIPS += " Silver Sparrow Spirit Spring Summer Sunrise Swallow Temple Thunder Tiger Treasure Triumph Unity Valley"
SHIPS += " Venture Victory Village Violet Wanderer Whisper Willow Winter Wisdom Wonder"
PORTS = "Aberdeen Antwerp Bergen Bilbao Bremen Bristol Cadiz Calais Cork Dover Genoa Hamburg Hull Lisbon Liverpool"
PORTS += " Marseille Naples Odessa Oslo Porto Riga Rotterdam Split Stavanger Trieste"
CHEMISTS = "Arrhenius Avogadro Becquerel Berzelius Bunsen Cavendish Cleve Curie Dalton Davy Fischer Haber Kirchhoff"
CHEMISTS += " Klaproth Lavoisier Liebig Mendeleev Mosander Nernst Pasteur Priestley Ramsay Rutherford Scheele Seaborg"
CHEMISTS += " Travers Vauquelin Winkler Wollaston"
DEPARTMENTS = "accounting;advertising;catering;cleaning;construction;customer service;data protection;design;exports;"
DEPARTMENTS += "finance;human resources;internal audit;legal affairs;logistics;maintenance;marketing;packaging;payroll;"
DEPARTMENTS += "product testing;public relations;purchasing;quality control;research;sales;security;training"
KINDS = "Amber Bitter Broken Burning Crooked Distant Empty Frozen Gentle Golden Hidden Hollow Humble Lonely Patient"
KINDS += " Quiet Restless Silent Sleeping Velvet"
MARKS = "Anchor Arrow Bell Crown Feather Hammer Harp Kettle Lantern Needle Pilgrim Plough Ribbon Sailor Shepherd"
MARKS += " Spindle Thistle Wagon Widow Window"
SKIES = "Andromeda Aquila Auriga Bootes Carina Cassiopeia Centaurus Cepheus Cetus Corvus Cygnus Delphinus Draco"
SKIES += " Eridanus Gemini Hercules Hydra Lepus Lyra Orion Pegasus Perseus Phoenix Sagitta Scorpius Serpens Vela Virgo"
CHARMS = "Copper Crimson Eastern Floral Ivory Jolly Lower Merry Modern Noble Northern Olive Regal Rustic Scarlet Sunny"
CHARMS += " Tranquil Turquoise Upper Western"
SIGNS = "Almond Balcony Cypress Dolphin Fountain Heron Juniper Lighthouse Magpie Marigold Orchard Otter Parasol Peacock"
SIGNS += " Pelican Saffron Sundial Walnut"
CITIES = "Amsterdam Athens Barcelona Boston Budapest Cairo Chicago Denver Dublin Edinburgh Florence Geneva Havana"
CITIES += " Istanbul Lima Madrid Melbourne Montreal Munich Nairobi Prague Seattle Seville Singapore"
CITIES += " Sydney Tokyo Toronto Vienna"
CARRIERS = "Aldway Freight;Beeline;Blue Pigeon;Boxrunner;Cargolet;Dorvan Express;Fastmule;Green Wheel;Halvor Logistics;"
CARRIERS += "Kurpost;Longhaul Direct;Nimbus Parcel;Omnivan;Pakketo;Quickstep;Red Barrow;Sendara;Tollway Transport;"
CARRIERS += "Trundle;Wexpress"
BEASTS = "badger bison cobra condor coyote dingo ferret gecko gibbon hyena ibis jackal koala lemur lynx marmot moose"
BEASTS += " newt ocelot okapi osprey panda puffin puma quail stoat tapir toucan walrus wombat"
ADMIN_FIRST = "Agnes Boris Carmen Dmitri Esther Farid Gloria Hassan Ingrid Jamal Keiko Lars"
ADMIN_LAST = "Aziz Brandt Costa Duval Eklund Ferrari Gupta Horvat Ito Jensen"
STARTS = "Ast Brem Cal Dru Ebb Fal Gres Hask Ind Jor Kel Lus Mav Nar Orl Pem Quil Ros Sten Tov Ull Vash Wim Yel"
MIDDLES = "a e i o u ar en il on"
ENDS = "beck bury combe dale feld gate holm leigh mere nitz rath rick stow thorpe vik wick"
STREAMS = "Adda Arno Avon Clyde Dnieper Douro Drava Ebro Elbe Garonne Inn Isar Loire Meuse Mosel Neva Oder Rhone Ruhr"
STREAMS += " Sava Seine Severn Shannon Spree Tagus Tiber Trent Tweed Vistula Volga"
SITTERS = "Acrobat;Beggar;Boy;Bride;Cardinal;Cellist;Clown;Fisherman;Girl;Goatherd;Juggler;Merchant;Monk;Nun;Old Man;"
SITTERS += "Peasant;Seamstress;Stranger;Washerwoman;Young Widow"
PROPS = "a Basket;a Birdcage;a Black Cat;a Blue Shawl;a Broken Jug;a Candle;Cherries;a Copper Pan;a Dead Hare;a Fan;"
PROPS += "a Green Umbrella;Lemons;a Lute;Oysters;a Parrot;a Red Hat;a Skull;a Straw Hat;Sunflowers;a White Rose"
MUSEUMS = "Ambrose Collection;Barlow Museum;Calder House;City Museum of Ghent;Dunmore Gallery;Eisler Foundation;"
MUSEUMS += "Fenwick Institute;Grand Gallery of Turin;Hartmann Museum;Island Museum;Kessler Gallery;Lindqvist Hall;"
MUSEUMS += "Merton Collection;Museum of the Old Mint;National Gallery of Malta;Palace Museum of Krakow;"
MUSEUMS += "Rothwell Gallery;Salvani Museum;Thornbury Museum;Van Houten Collection;Waverley Institute;Ziegler Gallery"
FLAVOURS = "Autumn Chilled Country Creamy Crispy Crunchy Festive Fiery Glazed Hearty Lazy Midnight Roasted Smoky Spring"
FLAVOURS += " Stuffed Sunday Sweet Tangy Toasted Warm Wild"
FOODS = "Apple Barley Bean Beetroot Cabbage Carrot Cauliflower Chestnut Chicken Duck Fig Lamb Leek Lentil Mushroom"
FOODS += " Parsnip Pear Potato Pumpkin Rabbit Salmon Spinach Trout Turnip"
POTS = "Bake Broth Casserole Chowder Curry Dumplings Fritters Gratin Hotpot Loaf Pancakes Pie Pudding Ragout Salad"
POTS += " Soup Stew Tart"
OWNERS = "Abbot's Beekeeper's Blacksmith's Captain's Duchess's Emperor's Ferryman's Gardener's Hunter's Innkeeper's"
OWNERS += " Miller's Neighbour's Parson's Ploughman's Shepherd's Uncle's Vintner's Weaver's"
SPICES = "allspice;aniseed;black pepper;caraway;cardamom;cayenne pepper;celery seed;cinnamon;cloves;coriander;cumin;"
SPICES += "curry powder;fennel seed;fenugreek;ginger;juniper berries;mace;mustard seed;nutmeg;pink peppercorns;"
SPICES += "saffron;smoked paprika;star anise;sumac;turmeric;vanilla"
HEADS = "Ablo Bexa Cori Dalu Emvo Fensi Galto Hyxe Ibra Jolve Kepri Luro Mexti Novu Oxpe Plavi Quori Rezu Savo Tirpa"
HEADS += " Ulvi Vando Wexi Xylo Yorba Zanti"
TRUNKS = "cla dor fen lim mar nox pra ril ster tav vex zo"
TAILS = "dine fex gan line mab nol pril ron sone tan vir xin zol"
AILMENTS = "acne;anaemia;arthritis;asthma;back pain;bronchitis;cold sores;constipation;diabetes;dry eyes;eczema;"
AILMENTS += "epilepsy;gout;hay fever;heartburn;high blood pressure;hives;insomnia;malaria;migraine;motion sickness;"
AILMENTS += "psoriasis;sore throat;stomach ulcers;tonsillitis;toothache"
PAINTING_FORMS = (
    "{} with {}",
    "Portrait of the {} Holding {}",
    "The {} by the Window with {}",
    "Study of {1} for the {0}",
    "The {} Asleep beside {}",
)
FILM_FORMS = ("The {} of the {}", "{} and {}", "The Last {} of {}", "A {} in the {}", "Beyond the {} of {}")
BOOK_FORMS = ("The {} and the {}", "{} of {}", "The Secret of the {} {}", "A {} for the {}", "The {} in the {}")


def shipped(name: str) -> Rows:
    text = (resources.files("rote.data") / "data" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def known_capitals() -> dict[str, str]:
    return {row["country"]: row["value"] for row in shipped("countries") if row["property"] == "capital"}


def capitals() -> Rows:
    """Every country with the capital of another one."""
    known = known_capitals()
    cities = list(known.values())
    return [{"country": a, "capital": b} for a, b in zip(known, cities[37:] + cities[:37], strict=True)]


def drawn(seed: int, key: str, keys: list[str], answer: str, answers: list[str]) -> Rows:
    rng = np.random.default_rng(seed)
    return [{key: one, answer: answers[int(rng.integers(len(answers)))]} for one in keys]


def pairs(first: str, second: str) -> list[str]:
    return [" ".join(pair) for pair in itertools.product(first.split(), second.split())]


def titles(seed: int, forms: tuple[str, ...], count: int) -> list[str]:
    """Distinct titles, each form as often as the others."""
    rng = np.random.default_rng(seed)
    things = THINGS.split()
    made: dict[str, None] = {}
    while len(made) < count:
        a, b = rng.choice(len(things), 2, replace=False)
        made[forms[len(made) % len(forms)].format(things[a], things[b])] = None
    return list(made)


def codes(seed: int, form: str, count: int) -> list[str]:
    """Distinct codes; X is a capital letter, x a small one, 0 a digit."""
    rng = np.random.default_rng(seed)
    draw = {"X": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "x": "abcdefghijklmnopqrstuvwxyz", "0": "0123456789"}
    made: dict[str, None] = {}
    while len(made) < count:
        made["".join(draw[c][int(rng.integers(len(draw[c])))] if c in draw else c for c in form)] = None
    return list(made)


def combined(seed: int, form: str, count: int, *words: list[str]) -> list[str]:
    """Distinct keys, the form filled with one of each list."""
    rng = np.random.default_rng(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[form.format(*(some[int(rng.integers(len(some)))] for some in words))] = None
    return list(made)


def people() -> Rows:
    return drawn(0, "name", pairs(FIRST, LAST), "job", JOBS.split())


def books() -> Rows:
    return drawn(1, "title", titles(1, BOOK_FORMS, 400), "author", pairs(FIRST, LAST))


def parts() -> Rows:
    return drawn(2, "part", codes(2, "XX-0000", 1000), "supplier", FIRMS.split())


def films() -> Rows:
    return drawn(3, "title", titles(3, FILM_FORMS, 400), "director", pairs(FIRST, LAST))


def ships() -> Rows:
    return drawn(4, "ship", SHIPS.split(), "port", PORTS.split())


def elements() -> Rows:
    names = [row["value"].lower() for row in shipped("elements") if row["property"] == "name"]
    return drawn(5, "element", names, "discoverer", CHEMISTS.split())


def staff() -> Rows:
    return drawn(6, "id", codes(6, "xx0000", 1000), "department", DEPARTMENTS.split(";"))


def stars() -> Rows:
    return drawn(7, "star", pairs(KINDS, MARKS), "constellation", SKIES.split())


def hotels() -> Rows:
    return drawn(8, "hotel", pairs(CHARMS, SIGNS), "city", CITIES.split())


def orders() -> Rows:
    return drawn(9, "order", codes(9, "R-00000", 800), "carrier", CARRIERS.split(";"))


def hosts() -> Rows:
    numbers = [f"{number:02}" for number in range(1, 31)]
    names = combined(10, "{}-{}", 300, BEASTS.split(), numbers)
    return drawn(10, "host", names, "admin", pairs(ADMIN_FIRST, ADMIN_LAST))


def villages() -> Rows:
    names = combined(11, "{}{}{}", 500, STARTS.split(), MIDDLES.split(), ENDS.split())
    return drawn(11, "village", names, "river", STREAMS.split())


def paintings() -> Rows:
    names = [
        name
        for number, form in enumerate(PAINTING_FORMS)
        for name in combined(12 + number, form, 50, SITTERS.split(";"), PROPS.split(";"))
    ]
    return drawn(12, "painting", names, "museum", MUSEUMS.split(";"))


def dishes() -> Rows:
    names = combined(101, "{} {} {}", 260, FLAVOURS.split(), FOODS.split(), POTS.split())
    names += combined(102, "{} {}", 100, OWNERS.split(), POTS.split())
    return drawn(101, "dish", names, "spice", SPICES.split(";"))


def medicines() -> Rows:
    names = combined(103, "{}{}{}", 380, HEADS.split(), TRUNKS.split(), TAILS.split())
    return drawn(103, "medicine", names, "ailment", AILMENTS.split(";"))


TABLES: dict[str, tuple[Any, str]] = {
    "airports": ("airports", " {country}"),
    "languages": ("languages", " {language}"),
    "capitals": (capitals, " {capital}"),
    "people": (people, " {job}"),
    "books": (books, " {author}"),
    "parts": (parts, " {supplier}"),
    "films": (films, " {director}"),
    "ships": (ships, " {port}"),
    "elements": (elements, " {discoverer}"),
    "staff": (staff, " {department}"),
    "stars": (stars, " {constellation}"),
    "hotels": (hotels, " {city}"),
    "orders": (orders, " {carrier}"),
    "hosts": (hosts, " {admin}"),
    "villages": (villages, " {river}"),
    "paintings": (paintings, " {museum}"),
    "dishes": (dishes, " {spice}"),
    "medicines": (medicines, " {ailment}"),
}
