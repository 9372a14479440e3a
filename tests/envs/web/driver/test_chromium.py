"""The arguments of Chromium."""

from turnwise.envs.web.driver.chromium import with_features


def test_features_join_the_lists_of_playwright() -> None:
    arguments = ["--disable-features=A,B", "--headless", "--enable-features=C"]
    more = {"disable": ("D",), "enable": ("E", "F")}
    assert with_features(arguments, more) == ["--headless", "--disable-features=A,B,D", "--enable-features=C,E,F"]
    assert with_features(["--headless"], {"enable": ("E",)}) == ["--headless", "--enable-features=E"]
