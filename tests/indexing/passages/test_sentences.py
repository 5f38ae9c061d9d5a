from __future__ import annotations

from typing import SupportsIndex

import pytest

from answermill.indexing.passages.sentences import RULES, Rule, decisions, sentence_spans


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met J. R. R. Tolkien at 5 p.m. in Washington, D.C. on Monday.", "He left."],
        [
            "It opens at 9 a.m. Eastern/Pacific and 6 p.m. EST.",
            "It closed at 3 p.m. Sunday.",
            "It left at 5 p.m.",
        ],
        ["It left at 5 p.m.", "Passengers slept until 6 a.m.", "Michael came at 7 A.M. March 3."],
        [
            "Approx. 40 came.",
            "The Lord is my shepherd (Ps. 23:1), and so on (2 Sam. 3:4).",
            "He met Sam.",
            "3 left.",
        ],
        ['See Schulte, P.M. "Principles of Physiology", and the call at 9:25 a.m. [Miami Herald, 9/14].'],
        ["The U.S. Army came.", "It left the U.S.", "The end."],
        ["He was born c. 1500 (d. 1540).", "It was 5 ft. 3 in. tall at 12 lbs. 3 oz. and more.", "Min. 8."],
        ["See Fig. 3, No. 5 and Sec. IV.", "Was it him?", "No.", "It was Mr. Jones vs. Mrs. Brown."],
        ["He paid $3.5 million (approx. 4.2 in U.S. dollars).", "Then he left... and came back."],
        ['"Why?" he asked.', '"Go."', "Then he left.", "(See above.)", "“Stay!”", "‘No.’", "He stayed."],
        [
            "Visit www.example.com or http://example.org/a.b?c=d.",
            "Yahoo! is a firm.",
            "Mail me at j.doe@example.com.",
        ],
        ["It assigns a probability.[1]", "Given that,[2][note 3] it works.[4]", "iPhones sell well."],
        [
            "Smith et al. (2010) found it, e.g. in fish, i.e. cod.",
            "Apple Inc. and Co. Ltd. agreed.",
            "The firm grew.",
        ],
        ["i went home.", "it was cold...", "But why?!", "Because of etc.", "Then it ended."],
        [
            "Jan. 5 was cold.",
            "In 1999.",
            "The year 2000 came.",
            "I was ill.",
            "Doctors came.",
            "Plan B.",
            "It failed.",
        ],
        [
            "He joined John F. Kennedy and George W. Bush in St. Louis, Mo. on Jan. 3.",
            "They talked about vitamin C.",
            "It helps.",
        ],
        ["Version 2.0.1 of Node.js costs 1,000.50 dollars.", "It runs on .NET.", "¿Qué?", "Sí."],
        ["It ended .", "Then , it began again .", "Why ?", "No one knows !"],
        ["これは文です。", "次の文です。", "終わり"],
    ],
)
def test_sentences_end_where_a_reader_ends_them(sentences: list[str]) -> None:
    joint = "" if "。" in sentences[0] else " "
    assert cut(joint.join(sentences)) == sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("hi", ["वह घर गया।", "क्या तुम आए?", "हाँ!", "रात हो गई।"]),
        ("hi", ["वह घर गया |", "रात हो गई |"]),  # on a keyboard without a danda
        ("mr", ["तो शाळेत गेला।", "पाऊस पडला।"]),
        ("sa", ["धर्मो रक्षति रक्षितः॥", "सत्यं वद।"]),
        ("bn", ["সে বাড়ি গেল।", "তুমি কি আসবে?"]),
        ("pa", ["ਉਹ ਘਰ ਗਿਆ।", "ਮੀਂਹ ਪਿਆ।"]),
        ("ur", ["وہ گھر گیا۔", "کیا تم آئے؟", "ہاں۔"]),
        ("ar", ["ذهب إلى البيت.", "هل جئت؟", "نعم!"]),
        ("fa", ["او به خانه رفت.", "آیا آمدی؟", "بله."]),
        ("hy", ["Նա գնաց տուն։", "Անձրեւ եկավ։"]),
        ("hy", ["Նա գնաց տուն:", "Անձրեւ եկավ:"]),
        ("el", ["Πού είναι το σπίτι;", "Είναι εδώ.", "Ήρθε;"]),
        ("am", ["ወደ ቤት ሄደ።", "መጣህ፧", "አዎ።"]),
        ("am", ["ወደ፡ቤት፡ሄደ፡፡", "መጣህ?", "አዎ፡፡"]),  # on a keyboard without a full stop
        ("ti", ["ንሱ፡መጺኡ፡፡", "ናበይ፡ከይዱ፧"]),
        ("km", ["គាត់ទៅផ្ទះ។", "ភ្លៀងធ្លាក់។"]),
        ("my", ["သူအိမ်သို့သွားသည်။", "မိုးရွာသည်။"]),
        ("bo", ["ཁོ་ནང་ལ་སོང་།", "ཆར་པ་བབས།"]),
        ("zh", ["他回家了。", "你来吗？", "来！", "好｡"]),
        ("zh", ["他回家了!", "你来吗?", "来了。"]),
        ("zh", ['他说:"来吧。"', "他走了。", "他问“谁？”。"]),
        ("ja", ["彼は「来た。」と言った。", "「行こう。」", "雨が降った．"]),
        (
            "ja",
            [
                "えっ!?",
                "本当？！",
                "(彼は来た。)",
                "雨が降った（昨日。）。",
                "【注意。】",
                "「来た。」、と言った。",
            ],
        ),
        ("ja", ["約３．５です。", "終わり。"]),
        ("th", ["เขากลับบ้าน", "ฝนตก"]),
        ("si", ["ඔහු ගෙදර ගියේය.", "වැස්ස වැටුණා."]),
        ("mn", ["ᠲᠡᠷᠡ ᠢᠷᠡᠪᠡ᠃", "ᠪᠣᠷᠣᠭᠠ ᠣᠷᠣᠪᠠ᠃"]),
        ("ru", ["Он ушёл домой.", "Ты пришёл?", "Да!"]),
        ("he", ["הוא הלך הביתה.", "באת?", "כן."]),
        ("ccp", ["𑄃𑄨𑄇𑄴𑅁", "𑄃𑄨𑄇𑄴𑅁"]),
        ("fr", ["« Il est venu. »", "« Où est-il ? » demande-t-elle.", "Il dit : « Non ! »", "Elle part."]),
        ("de", ["Er kam.", "»Ja«, sagte sie."]),
        ("ko", ["그는 집에 갔다.", "왔니?", "네."]),
        ("ko", ["그는 “집에 갔다.”라고 말했다.", "“왔다.”", "갔다."]),
        ("uk", ["Він живе у м. Києві.", "Він прийшов."]),
        ("nl", ["Dhr. Jansen kwam, bijv. Peter.", "Hij kreeg resp. Euro en Dollar.", "Hij ging."]),
    ],
)
def test_sentences_of_every_script_end_at_its_marks(language: str, sentences: list[str]) -> None:
    joint = "" if language in ("zh", "ja", "my", "km", "bo") else "\n" if language == "th" else " "
    text = joint.join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


# Texts of ours in the most written languages, with what looks like an end: a title before a name, an
# abbreviation, a number with a point.
GOLD = {
    "en": ["Dr. Lee came at 5 p.m. on Monday.", "“Is it open?” she asked.", "It costs $3.50."],
    "zh": ["灯塔高3.5米。", "他问：“船来了吗？”", "没有人知道！"],
    "hi": ["डॉ. शर्मा ३.५ किलोमीटर चले।", "क्या नाव आई?", "किसी को पता नहीं!"],
    "es": ["El Sr. García vive en la Av. Colón n.º 5.", "¿Llegó el barco?", "¡Nadie lo sabe!"],
    "ar": ["يبلغ ارتفاع المنارة 3.5 أمتار.", "هل وصل القارب؟", "لا أحد يعرف!"],
    "bn": ["ড. রহমান ৩.৫ কিলোমিটার হাঁটলেন।", "নৌকা কি এসেছে?", "কেউ জানে না!"],
    "pt": ["O Sr. Silva mora na Av. Brasil, n.º 5.", "O barco chegou?", "Ninguém sabe!"],
    "ru": ["Маяк построен в 1871 г. на ул. Ленина.", "Пришла ли лодка?", "Никто не знает!"],
    "ur": ["مینار کی اونچائی 3.5 میٹر ہے۔", "کیا کشتی آئی؟", "کوئی نہیں جانتا!"],
    "id": ["Dr. Budi membayar Rp5.000 pada pukul 10.30.", "Apakah kapal datang?", "Tidak ada yang tahu!"],
    "de": ["Am 3. Oktober kam Dr. Huber, z. B. mit dem Zug.", "Ist das Boot da?", "Niemand weiß es!"],
    "ja": ["灯台の高さは3.5メートルです。", "「船は来ましたか？」と彼は聞いた。", "誰も知らない！"],
    "mr": ["डॉ. पाटील ३.५ किलोमीटर चालले.", "होडी आली का?", "कोणालाच माहीत नाही!"],
    "te": ["డా. రావు 3.5 కిలోమీటర్లు నడిచారు.", "పడవ వచ్చిందా?", "ఎవరికీ తెలియదు!"],
    "tr": ["Dr. Kaya 3. gün saat 10.30'da geldi.", "Tekne geldi mi?", "Kimse bilmiyor!"],
    "ta": ["டாக்டர் ராமன் 3.5 கிலோமீட்டர் நடந்தார்.", "படகு வந்ததா?", "யாருக்கும் தெரியாது!"],
    "vi": ["TS. Nam đi 3,5 km ở TP. Hồ Chí Minh.", "Thuyền đã đến chưa?", "Không ai biết!"],
    "ko": ["등대의 높이는 3.5미터이다.", "배가 왔습니까?", "아무도 모른다!"],
    "fr": [
        "M. Dupont habite à 3,5 km, p. ex. de la gare.",
        "Le bateau est-il arrivé ?",
        "Personne ne le sait !",
    ],
    "it": ["Il sig. Rossi cita l'art. 5 della legge.", "È arrivata la barca?", "Nessuno lo sa!"],
    "gu": ["ડૉ. પટેલ 3.5 કિલોમીટર ચાલ્યા.", "હોડી આવી?", "કોઈને ખબર નથી!"],
    "pa": ["ਡਾ. ਸਿੰਘ 3.5 ਕਿਲੋਮੀਟਰ ਤੁਰੇ।", "ਕੀ ਕਿਸ਼ਤੀ ਆਈ?", "ਕੋਈ ਨਹੀਂ ਜਾਣਦਾ!"],
    "pl": ["Latarnia stoi od 1871 r. przy ul. Morskiej 5.", "Czy łódź przypłynęła?", "Nikt nie wie!"],
    "uk": ["Маяк стоїть з 1871 р. на вул. Морській.", "Чи прийшов човен?", "Ніхто не знає!"],
    "ml": ["ഡോ. നായർ 3.5 കിലോമീറ്റർ നടന്നു.", "വള്ളം വന്നോ?", "ആർക്കും അറിയില്ല!"],
    "kn": ["ಡಾ. ರಾವ್ 3.5 ಕಿಲೋಮೀಟರ್ ನಡೆದರು.", "ದೋಣಿ ಬಂತೇ?", "ಯಾರಿಗೂ ಗೊತ್ತಿಲ್ಲ!"],
    "my": ["မီးပြတိုက်သည် ၃.၅ မီတာ မြင့်သည်။", "လှေ ရောက်ပြီလား။", "မည်သူမျှ မသိပါ။"],
    "th": ["ประภาคารสูง 3.5 เมตร", "เรือมาหรือยัง", "ไม่มีใครรู้"],
    "am": ["መብራቱ 3.5 ሜትር ነው።", "ጀልባው መጣ?", "ማንም አያውቅም!"],
}


@pytest.mark.parametrize(("language", "sentences"), GOLD.items(), ids=list(GOLD))
def test_the_most_written_languages_are_cut_where_their_readers_cut_them(
    language: str, sentences: list[str]
) -> None:
    joint = "" if language in ("zh", "ja") else "\n" if language == "th" else " "
    text = joint.join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("de", ["Es kamen 25.", "Danach kam der 2. Zug.", "Es war 1990.", "Niemand kam."]),
        ("fr", ["Ils sont 25.", "Demain le train vient."]),
    ],
)
def test_a_number_is_an_ordinal_only_before_a_noun_of_german(language: str, sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        # Quotation marks that close, though they open in English.
        ("de", ["„Er kam nicht.“", "Wir gingen.", "»Ist er da?«", "Niemand wusste es."]),
        ("sk", ["„Neviem.“", "Odišiel."]),
        ("de", ["„Ist er da?“ fragte sie."]),
        ("fr", ["« Le film était bien ? »", "« Oui. »", "Il partit.", "« C'est moi ! » dit le roi."]),
        # A mark in brackets of its own says something of the word before it.
        ("de", ["Es war(!) Montag [...] Nachmittag.", "Er kam."]),
        # Within a title.
        ("zh", ["我们去看《你好！李》好吗？", "好！", "他看《你好！》吧。"]),
        # The full stop of ASCII joins clauses in Armenian.
        ("hy", ["Նա ասաց. Ես գալիս եմ։", "Նա եկավ։"]),
        # What a small letter follows is shortened, unless all is in small letters.
        ("it", ["La centrale meteor. si ferma.", "Poi riparte."]),
        ("it", ["arrivo domani.", "porto tutto."]),
        # Titles and the like, and names of numbers.
        ("es", ["La Lic. Ruiz vive en EE. UU. desde ene. 2011.", "Ver cap. 24."]),
        ("fr", ["Vers 14 av. J.-C. Auguste règne.", "Il meurt."]),
        ("uk", ["Доц. Бойко живе в с. Лісове, буд. 4, кв. 5.", "Він пише."]),
        ("ru", ["Он живёт в г. Москва, кв. 5.", "Дом построен в 1898 г.", "Виктор уехал."]),
        ("sk", ["Prišiel MUDr. Novák, napr. v r. 2010.", "Potom odišiel."]),
        ("ar", ["وصل د. أحمد.", "ثم ذهب."]),
        ("ml", ["കെ. പി. മോഹനൻ വന്നു.", "മഴ പെയ്തു."]),
        ("de", ["Es gab ihn vom 1. -3. Jahrhundert.", "Es waren 25.", "Dann ging er."]),
        # A short form may be last before a word with which sentences begin.
        ("da", ["Han bor i U.S.A. i dag.", "Hun flyttede til U.S.", "Det var koldt."]),
        ("es", ["Me voy a EE. UU.", "Buen viaje."]),
        # Notes and bullets.
        ("de", ["Das steht dort.¹", "Noch ein Satz.²"]),
        ("es", ["• 1. Busca ayuda."]),
    ],
)
def test_a_language_s_own_writing_decides(language: str, sentences: list[str]) -> None:
    joint = "" if language == "zh" else " "
    text = joint.join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("zh", ["“这是对的。”他说。", "他走了。", "“我知道。”", "天黑了。"]),
        ("zh", ["“你来吗？”老师问道。", "“来！”", "她说：“走吧。”"]),
        ("ko", ['"왔니?" 그가 물었다.', "네."]),
        ("am", ['እሷም፣ "ሁሉንም መረጃዎች መርምራችሁታል?" ብላ ጠየቀች።', "አዎ።"]),
        ("hi", ['"अतिथि देवो भव!" बोले थे श्री. वर्मा।', '"हाँ।"', "वह गया।"]),
        ("mr", ['"तू आलास का?" त्याने विचारले.', "हो."]),
        ("bn", ['"তুমি কি আসবে?" সে জিজ্ঞাসা করল।', "হ্যাঁ।"]),
        ("gu", ['"તું આવ્યો?" તેણે પૂછ્યું.', "હા."]),
        ("pa", ['"ਕੀ ਤੂੰ ਆਇਆ?" ਉਸਨੇ ਪੁੱਛਿਆ।', "ਹਾਂ।"]),
        ("ta", ['"நீ வந்தாயா?" என்று கேட்டான்.', "ஆம்."]),
        ("te", ['"నువ్వు వచ్చావా?" అని అడిగాడు.', "అవును."]),
        ("kn", ['"ನೀನು ಬಂದೆಯಾ?" ಎಂದು ಕೇಳಿದನು.', "ಹೌದು."]),
        ("ml", ['"നീ വന്നോ?" എന്ന് ചോദിച്ചു.', "അതെ."]),
        ("my", ["“လာပြီလား။” ဟု သူမေးသည်။", "ဟုတ်ကဲ့။"]),
        ("ur", ['"کیا تم آئے؟" اس نے پوچھا۔', "ہاں۔"]),
        ("ar", ['"هل جئت؟" سأل أحمد.', "نعم."]),
        ("fa", ["«آیا آمدی؟» او پرسید.", "بله."]),
        ("he", ['"באת?" שאל דוד.', "כן."]),
        ("ka", ["„მოხვედი?“ ჰკითხა მან.", "კი."]),
    ],
)
def test_who_said_so_belongs_to_the_sentence_of_the_quotation(language: str, sentences: list[str]) -> None:
    text = ("" if language == "zh" else " ").join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        # Dots inside short forms whose letters have signs of vowels.
        ("hi", ["दूरी 5 कि.मी. है।", "यह ई.पू. 300 की बात है।", "भा.ज.पा. और बी.एस.पी. लड़ेंगी।"]),
        ("bn", ["দূরত্ব ৫ কি.মি. হবে।", "সে হাঁটল।"]),
        ("kn", ["ಕ್ರಿ.ಪೂ. 300 ರಲ್ಲಿ ನಡೆಯಿತು.", "ಅದು ಹಳೆಯದು."]),
        ("ne", ["ऊ घर गयो।", "वि.सं. २०८० मा वर्षा भयो।"]),
        ("th", ["พบกันวันที่ 3 มี.ค. 2560 ที่ จ. เชียงใหม่"]),
        # Names of letters, and letters of scripts without capitals.
        ("hi", ["ए. पी. जे. अब्दुल कलाम आए।", "एम. एस. धोनी खेले।"]),
        ("ta", ["எம். ஜி. ராமச்சந்திரன் வந்தார்.", "ஆம்."]),
        ("si", ["ඒ. බී. සී. පෙරේරා පැමිණියේය.", "ඔහු හිඳ ගත්තේය."]),
        ("ar", ["كتب ج. ك. غريفيث الرسالة.", "ثم نام."]),
        ("he", ["א. ב. יהושע כתב ספר.", "הוא סופר."]),
        ("ka", ["ი. ჭავჭავაძე პოეტია.", "კი.", "მერე დაიძინა."]),
        ("km", ["លោក ក. ខ. មក។", "ភ្លៀង។"]),
        ("ur", ["ایف۔بی۔آر نے کہا۔", "وہ گئے۔"]),
        # A mark of two halves, and a sign that looks like a danda.
        ("my", ["ငါး၊ ကြက် စားသည်၊၊", "အိပ်သည်၊၊"]),
        ("bn", ["সে বাড়ি গেল৷", "বৃষ্টি হল৷"]),
        # A Roman number before a name.
        ("hu", ["IV. Béla magyar király volt.", "Meghalt."]),
        ("tr", ["II. Dünya Savaşı bitti.", "Padişah II. Mehmed geldi."]),
        # What is a month or a state in English is a name elsewhere.
        ("cs", ["Přišel Jan.", "Odešel."]),
        ("ru", ["Он ушёл, т. к. было поздно и т. д.", "Дома спали."]),
        ("de", ["Das kostet 5 Mio. Euro, d. h. Viel.", "Es dauert 5 h.", "Dann nicht."]),
        ("id", ["PT. Telkom hadir pk. 14.30, tgl. 15 Mei.", "Tn. Budi pulang."]),
    ],
)
def test_short_forms_of_every_script_end_no_sentence(language: str, sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


def test_english_is_cut_as_before_at_what_other_languages_write() -> None:
    for sentences in (["It was(!)", "Monday."], ["[...]", "He came."], ["It left then.", "but she stayed."]):
        text = " ".join(sentences)
        assert [text[start:end] for start, end in sentence_spans(text, "en")] == sentences


def test_a_sign_of_one_language_ends_no_sentence_of_another() -> None:
    for text in ("He came; she left.", "One: Two.", "a | b", "ཁོ་ནང་ལ་སོང་།"):
        assert [text[start:end] for start, end in sentence_spans(text, "en")] == [text]


def test_a_line_is_a_block_and_no_sentence_crosses_it() -> None:
    assert cut("A heading\nMr.\nJones came\n\n1. Introduction\n  2. The end  \n") == [
        "A heading",
        "Mr.",
        "Jones came",
        "1. Introduction",
        "2. The end",
    ]


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_a_rule_decides_in_its_example(rule: Rule) -> None:
    before, _, after = rule.example.partition("|")
    text = before + after
    assert dict(decisions(text, 0, len(text), rule.language))[len(before)] is rule
    start, end = next(sentence_spans(text, rule.language))
    assert text[start:end] == (before if rule.ends else text)


class Watched(str):
    """A text that notes the length of the longest part that is taken from it."""

    longest = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        self.longest = max(self.longest, len(part))
        return part


@pytest.mark.parametrize(
    ("words", "language"),
    [
        ("1. ", "en"),
        ("A. b. 5 p.m. ", "en"),
        ("Dr. Haus. am 3. Mai ", "de"),
        ("अ. कि.मी. ", "hi"),
        ("א. ", "he"),
        ("بی۔بی۔", "ur"),
        ("т. д. ", "ru"),
        ("IV. Béla ", "hu"),
        ("《是！吗。", "zh"),
        ("“是。”他说", "zh"),
    ],
)
def test_a_decision_reads_no_more_of_a_line_of_marks_than_is_near(words: str, language: str) -> None:
    text = Watched(words * (10_000 // len(words)))
    assert list(sentence_spans(text, language))
    assert text.longest <= 200


@pytest.mark.parametrize("mark", [".", "!", "…", "。"])
def test_marks_beside_each_other_are_looked_at_once(mark: str) -> None:
    # As many times as there are marks would take hours.
    assert "".join(cut(mark * 300_000 + "a")) == mark * 300_000 + "a"
