from __future__ import annotations

import pytest

from answermill.indexing.passages.sentences import RULES, Rule, decisions, sentence_spans


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith met J. R. R. Tolkien at 5 p.m. in Washington, D.C. on Monday.", "He left."],
        ["The U.S. Army came.", "It left the U.S.", "The end."],
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
        ("km", ["គាត់ទៅផ្ទះ។", "ភ្លៀងធ្លាក់។"]),
        ("my", ["သူအိမ်သို့သွားသည်။", "မိုးရွာသည်။"]),
        ("bo", ["ཁོ་ནང་ལ་སོང་།", "ཆར་པ་བབས།"]),
        ("zh", ["他回家了。", "你来吗？", "来！", "好｡"]),
        ("zh", ["他回家了!", "你来吗?", "来了。"]),
        ("ja", ["彼は「来た。」と言った。", "「行こう。」", "雨が降った．"]),
        ("ja", ["約３．５です。", "終わり。"]),
        ("th", ["เขากลับบ้าน", "ฝนตก"]),
        ("si", ["ඔහු ගෙදර ගියේය.", "වැස්ස වැටුණා."]),
        ("mn", ["ᠲᠡᠷᠡ ᠢᠷᠡᠪᠡ᠃", "ᠪᠣᠷᠣᠭᠠ ᠣᠷᠣᠪᠠ᠃"]),
        ("ru", ["Он ушёл домой.", "Ты пришёл?", "Да!"]),
        ("he", ["הוא הלך הביתה.", "באת?", "כן."]),
        ("ccp", ["𑄃𑄨𑄇𑄴𑅁", "𑄃𑄨𑄇𑄴𑅁"]),
        ("ko", ["그는 집에 갔다.", "왔니?", "네."]),
    ],
)
def test_sentences_of_every_script_end_at_its_marks(language: str, sentences: list[str]) -> None:
    joint = "" if language in ("zh", "ja", "my", "km", "bo") else "\n" if language == "th" else " "
    text = joint.join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text, language)] == sentences


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
    assert dict(decisions(text, 0, len(text)))[len(before)] is rule
    assert cut(text)[0] == (before if rule.ends else text)
