"""Names of columns that tell people apart, and of columns of places, times and measurements, in many languages."""

from __future__ import annotations

import re
from unicodedata import combining, normalize

#: Whole words: short ones of any language, of FHIR, OMOP, CDISC, registers of people, and advertising.
_WORDS_OF_PEOPLE = frozenset(
    re.findall(
        "[a-z]+",
        "id ids uid uuid guid pid mrn nbr nhs ssn sin nino dni nie nif cif curp cpf rut nir ipp ins bsn cnp pnr cpr "
        "kvnr svnr kvid subj subjid usubjid patid pat panelist hid hhid userid custid memberid loginid idfa idfv gaid "
        "aaid adid maid ifa oaid tdid rampid muid hem ip ipaddress imei imsi msisdn mac",
    )
)
#: Beginnings of words; in other scripts, parts of words.
_STEMS_OF_PEOPLE = re.compile(
    "patient|pacient|pacjent|pazient|pasient|potilas|subject|sujet|sujeto|soggett|proband|particip|teilnehm|deelnem|"
    "client|klient|klant|kund|customer|consumer|asiakas|member|mitglied|membre|miembro|membro|lid(?:nr|nummer|maat)|"
    "versich|insured|assur|asegurad|assicurat|verzeker|ubezpieczon|person(?!al$|nel)|pessoa|osob|household|famil(?!iar)|haushalt|foyer|menage|"
    "hogar|huishoud|student|schuler|schueler|eleve|alumn|estudiant|uczen|employee|mitarbeit|angestellt|emplead|employe|dipendent|"
    "medewerk|pracownik|user|usuari|usager|utilisat|utente|benutz|nutzer|gebruiker|anvandar|bruker|uzytkownik|account|konto|"
    "compte|cuenta|email|mail|correo|phone|telefon|telephone|telefoon|handy|cookie|device|visitor|dossier|codicefiscale|fiscal|"
    "pesel|personnummer|fodselsnummer|steuer(?:id|nummer)|ausweis|passport|passeport|pasaporte"
)
_PARTS_OF_PEOPLE = re.compile("пациент|клиент|участник|пользоват|снилс|полис|患者|病人|用户|客户|顧客|会員")
_STEMS_OF_OTHERS = re.compile(
    "date|datum|fecha$|fech|years?$|jahr|annee|ano$|anno$|month|monat|mois$|mes$|week|woche|days?$|tage?$|jour$|dia$|giorn|hour|"
    "stunde|minutes?$|seconds?$|time|zeit|duration|dauer|duree|ages?$|alter$|edad$|eta$|idade$|leeftijd$|wiek$|"
    "price|preis|prix$|precio|prezzo|costs?$|kosten|cout|amount|betrag|montant|salar|wages?$|income|einkommen|revenu|balance|saldo|"
    "tax$|weight|gewicht|poids|peso$|height|sizes?$|width|length|distance|area|scores?$|ratings?$|rates?$|percent|ratio$|counts?$|"
    "anzahl|quantity|temp$|temperat|latitude|longitude|lat$|lon$|lng$|altitude|"
    "states?$|country|land$|pays$|pais$|paese|nation|county|region|province|provinz|canton|kanton|city|cities|stadt|ville$|ciudad|"
    "citta|towns?$|ort$|zip|plz$|postcode|postal|neighborhood|streets?$|district|continent|"
    "models?$|brand|marke$|marque|manufactur|product|produkt|produit|items?$|sku$|category|kategorie|species|genus|genes?$|diag|icd|"
    "atc$|occupation|jobs?$|beruf|fields?$|teams?$|titles?$|color|colour"
)
_LETTERS = str.maketrans("łøŁØ", "loLO")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def tells_people_apart(name: str) -> bool:
    """True if a column's name has a word for people or their identifiers, and none for places or measurements."""
    return _is_of_people(name) and not _is_of_others(name)


def is_of_others(name: str) -> bool:
    """True if a column's name has a word for places, times, measurements or things, and none for people."""
    return _is_of_others(name) and not _is_of_people(name)


def _is_of_people(name: str) -> bool:
    """True if a word is one of people's identifiers; plurals of English, such as users, count people."""
    words = [*_words(name)]
    stems = (match for match in map(_STEMS_OF_PEOPLE.match, words) if match)
    known = not _WORDS_OF_PEOPLE.isdisjoint(words) or any(each.string[each.end() :] != "s" for each in stems)
    return known or bool(_PARTS_OF_PEOPLE.search(name.casefold()))


def _is_of_others(name: str) -> bool:
    """True if a word is one of places, times, measurements or things."""
    return any(map(_STEMS_OF_OTHERS.match, _words(name)))


def _words(name: str) -> list[str]:
    """The words of a name, in small letters without accents."""
    plain = "".join(letter for letter in normalize("NFKD", name.translate(_LETTERS)) if not combining(letter))
    return [word.lower() for word in _WORDS.findall(plain)]
