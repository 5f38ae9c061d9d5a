"""Abbreviations of the most written languages, each as it is written before its full stop, and words that
begin their sentences: by them the rules of sentences.py decide where a full stop ends none."""

from __future__ import annotations

from functools import cache

Words = frozenset[str]


def _words(words: str) -> Words:
    return frozenset(words.split())


STARTERS = _words(
    "A After All Although An And Another Any As At Because Before Both But By Each Even Every For From He "
    "Her Here His How However I If In Instead It Its Many Meanwhile Moreover Most My No Not Now On Once One "
    "Or Our Perhaps She Since So Some Still Such That The Their Then There Therefore These They This Those "
    "Though Thus To Today Under Unlike Until We What When Where Whether Which While Who Why With Yet You "
    "Your"
)
TITLES = _words(  # a name follows
    "Adm Asst Brig Capt Cmdr Col Cpl Dr Fr Gen Gov Hon Lt Maj Messrs Mlle Mme Mr Mrs Ms Pfc Pres Prof Pvt "
    "Rep Reps Rev Sen Sens Sgt Ssgt Supt"
)
LATIN = _words("approx ca cf e.g eg i.e ie v vs viz Approx Ca Cf E.g I.e Vs Viz")  # something follows
BOOKS = _words(  # of the Bible: a chapter and verse follow
    "Ps Pss Gen Ex Exod Lev Num Deut Josh Judg Sam Kgs Chr Neh Esth Prov Eccl Isa Jer Lam Ezek Dan Hos Mic "
    "Hab Zeph Hag Zech Mal Matt Mt Mk Lk Jn Rom Cor Gal Eph Phil Col Thess Tim Heb Jas Pet Rev"
)
HALF_DAYS = _words("a.m p.m A.M P.M")
AFTER_HALF_DAYS = _words(  # the sentence goes on
    "Eastern Central Mountain Pacific Atlantic Hawaiian Alaska Greenwich Local Standard Daylight "
    "Coordinated Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mon Tue Tues Wed Thu Thur Thurs "
    "Fri Sat Sun January February March April May June July August September October November December"
)
BEFORE_NUMBER = _words(
    "no nos nr fig figs eq eqs sec secs ch chap p pp vol vols art arts tab ref refs par para pt ver op ex "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
MAYBE_LAST = _words(  # last in a sentence only if the next word is one that starts sentences
    "Ave Bldg Blvd Bros Co Corp Dept Dist Est Ft Inc Jr Ltd Mt Mts Rd Sr St Ste Univ Assn al Ph.D M.D B.A "
    "M.A B.Sc M.Sc"
)
ENGLISH_LAST = _words(  # the same in English alone: elsewhere, Jan, Del and La are names and words
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky La "
    "Md Mich Minn Miss Mo Mont Neb Nev Okla Ore Pa Tenn Tex Va Vt Wash Wis Wyo Ed Eds"
)

SHORTENED = BEFORE_NUMBER | _words("approx assn dept dist elev etc incl temp univ")

_INDIC_DOCTORS = "डॉ डा प्रो पं स्व ড ডা ডঃ প্রো డా డాక్టర్ ప్రొ ડૉ ડો પ્રો ਡਾ ਪ੍ਰੋ ഡോ പ്രൊഫ പ്രൊ ಡಾ ಪ್ರೊ"
_OF_DEVANAGARI = "श्री श्रीमती कु उदा रु ता जि प्रा पृ बी सी डी एफ एच जे एल एम एन ओ आर एस टी यू वी"
_FOLLOWED = {  # titles, streets, 'see', 'before': something follows
    "af": "Mnr Mev Mej bv",
    "ar": "د أ أ.د",  # Dr., Prof.
    "bg": "пл ул бул гр проф инж д-р св вж вкл напр",
    "ca": "Sra Srta Dra Hble Excm Excma Inst Sta Sto Mn Av Avda Pg Ctra",
    "cs": "ing prof doc např tzv tj resp ul nám MUDr JUDr PhDr RNDr mgr bc př",
    "da": "Skt Sct Kgl Hr Fr Chr adr f.eks bl.a evt vedr",
    "de": "bzw evtl ggf inkl sog vgl Hr Hrn Frl Dipl ing Nr Abs v n h med phil jur rer nat kath evang",
    "el": "κ κκ Δρ Αγ π.χ",
    "es": "Sra Sras Srta Sres Dña Lic Ing Arq Gral Cnel Hble Excmo Excma Av Avda pág art núm ej",
    "fi": "esim mm ts ns prof",
    "fr": "MM Mgr Me av apr éd impr",
    "hu": "pl ill kb ún id ifj özv",
    "id": "Jl Ir Bpk Drs Yth Sdr Sdri Tn Ny Nn Moh Muh PT CV",
    "it": "sig sigg dott prof avv ing arch geom rag Egr Spett es",
    "lt": "pvz",
    "nl": "dhr mevr mw drs ing bijv bv aanw resp",
    "pl": "ul al pl prof dr hab inż mgr św np im gen ks bp abp płk kpt tzw tzn",
    "pt": "Sra Srta Dra Profa Eng Exmo Exma Av pág art",
    "ro": "dl dna str bd",
    "ru": "ул просп пл пер проф акад им св см ср стр рис напр пгт тов ред оз г гг с д п",
    "sk": "ing prof doc napr tzv tzn tj resp ul nám MUDr JUDr PhDr RNDr mgr bc pr",
    "sv": "Hr Fr dr bl.a t.ex s.k",
    "sw": "Bw Bi Dkt",
    "th": "ดร ผศ รศ ศ นพ พญ พล.อ พ.ต.อ",
    "tl": "Gng Bb",
    "tr": "Doç Av Sn Yrd Öğr Cad Sok Mah bkz örn",
    "uk": "вул просп пл пров проф акад ім св див напр доц др ред нар бл англ нім лат рос оз Ів р с м п",
    "vi": "TS ThS PGS GS BS TP Tp",
    **dict.fromkeys(("bn", "as", "te", "gu", "pa", "ml", "kn"), f"{_INDIC_DOCTORS} মি মো মিসেস শ્રી શ્રીમતી"),
    **dict.fromkeys(("hi", "mr", "ne"), f"{_INDIC_DOCTORS} {_OF_DEVANAGARI}"),
}
_LAST_AFTER_NUMBER = {"de": "h", "ru": "г гг с д п", "uk": "р с м п"}
"""Of these, those that also stand after a number, last in a sentence: 'г' is a town, and a year in 1898 г."""
_NUMBERED = {  # a number follows
    "ca": "núm pàg pàgs cap vol s c n t tel",
    "cs": "č r str s odst čl tel",
    "da": "s d kap stk kl side tlf",
    "de": "s str bd kap abb tel",
    "el": "αρ σελ κεφ τηλ",
    "en": "b c d r fl ft lb lbs oz apt tel ext elev est min max temp tue tues thu thur thurs fri",
    "es": "cap s c párr párrf pág págs vol tel ext ago ene abr dic lun mié jue vie sáb dom cra n°",
    "fi": "s n v klo puh",
    "fr": "s chap vol t tél env janv févr avr juil déc n°",
    "id": "hlm hal tel pk pkl tgl no",
    "it": "pag pagg cap n num tel n°",
    "nl": "blz nr hfst tel",
    "pl": "nr s str rozdz ust pkt tel poz",
    "pt": "cap s págs n tel inc n°",
    "ro": "pag cap lg leg alin tel nr",
    "ru": "кв корп рис гл т ст п тел вып тыс",
    "sk": "č r str s ods čl tel",
    "sv": "s kap kl tel nr",
    "tr": "s sf cilt tel",
    "uk": "буд кв стор рис мал арт ч ст тис поч кін тел",
}
_STARTERS = {  # names of people have none of them
    "ca": "El Els Les Una En És Per Amb Però Aquest Aquesta Ara Al Si Quan Era Bon",
    "da": "Det Den Der Han Hun Hvad Hvor Jeg Men Og Som Ved",
    "es": "El Los Las Un Una En Es Se Lo Por Para Con Como Pero Este Esta Hay Si Cuando Ya Él Ella Buen",
    "fr": "Les Un Une Des Il Elle Ils Elles On Ce Cette Ces Dans En Pour Mais Et Nous Vous Je Sur Avec",
    "id": "Ini Itu Dari Dan Yang Pada Untuk Tetapi Dia Mereka Kami",
    "it": "Il Gli Un Una In È Non Si Ma Per Con Come Questo Questa Quando Anche Nel Nella Dopo",
    "nl": "Het Een Maar Dit Dat Hij Zij Ze Wij Er In Op Bij Met Voor Als",
    "pl": "To Ten Ta Jest Na Nie Ale Po Przy Był Była Było Jego Jej",
    "pt": "Os Um Uma Em No Na É Não Mas Por Para Com Como Este Esta Ele Ela Quando Se",
    "ro": "Aici Este Un Din Pe Nu Dar Acum El Ea Acest Această Când Pentru În",
    "ru": "Он Она Они Это Этот Эта Но На По Из Для При Его Её Их Не Как Если Так Что Был Была Было",
    "sv": "Det Den Han Hon Vad Jag Men Och Som Vid",
    "tr": "Bu Bir Ve Ama Ancak",
    "uk": "Він Вона Вони Це Цей Ця Але На По Із Для При Його Її Їх Не Як Якщо Так Що Усі Був Була",
}

_NO_NOUNS = """
    Aber Als Am An Auch Auf Aus Bei Da Dabei Damit Danach Dann Das Dem Den Denn Der Die Dies Diese Dieser Doch
    Dort Ein Eine Einen Einer Er Es Für Hier Ich Ihr Im In Ist Jetzt Mit Nach Nur Ob Oder Seit Sie So Und Um
    Von Vor Was Weil Wenn Wer Wie Wir Wo Zu Zum Zur"""
NO_NOUNS = frozenset(_NO_NOUNS.split())
"""Words that begin sentences of German and are no nouns, so that a number before them is no ordinal."""


LETTERS_OF_URDU = _words(
    "اے بی سی ڈی ای ایف جی ایچ آئی جے کے ایل ایم این او پی کیو آر ایس ٹی یو وی ڈبلیو ایکس وائی زیڈ"
)
"""Names of Latin letters: بی۔بی۔سی is the BBC."""


@cache
def followed_in(language: str) -> Words:
    """Abbreviations of a language, an ISO 639 code, with which no sentence ends; one of several letters may
    begin with a capital.

    >>> sorted(followed_in("bg"))[:3]
    ['Бул', 'Вж', 'Вкл']
    """
    words = _FOLLOWED.get(language, "").split()
    return frozenset([*words, *(word[0].upper() + word[1:] for word in words if len(word) > 1)])


@cache
def last_after_number(language: str) -> Words:
    """Of `followed_in`, those with which a sentence may end after a number."""
    return _words(_LAST_AFTER_NUMBER.get(language, ""))


@cache
def before_number(language: str) -> Words:
    """Abbreviations of a language and of English, in small letters, that end no sentence if a number follows.

    >>> "hlm" in before_number("id"), "fig" in before_number("id")
    (True, True)
    """
    return BEFORE_NUMBER | _words(_NUMBERED.get(language or "en", ""))


@cache
def starters(language: str) -> Words:
    """Words of a language and of English that begin sentences, and are in no name.

    >>> "Он" in starters("ru"), "Он" in starters("en")
    (True, False)
    """
    return STARTERS | _words(_STARTERS.get(language, ""))


@cache
def named(language: str) -> Words:
    """All words that a rule names for texts of a language, in small letters."""
    english = TITLES | LATIN | BOOKS | MAYBE_LAST | ENGLISH_LAST
    return frozenset(word.lower() for word in english | followed_in(language) | before_number(language))
