// The words of the page in the chosen language: that of the browser, or the one that was chosen in the page.
import { words as en } from "./words.en.ts";
import { words as zh } from "./words.zh.ts";

// As the English words, whatever they say.
type Worded<T> = T extends string ? string : T extends (...given: infer Given) => string ? (...given: Given) => string : { readonly [Key in keyof T]: Worded<T[Key]> };
export type Words = Worded<typeof en>;

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;
const ALL: Readonly<Record<Language, Words>> = { en, zh };
const KEPT = "sonde-language";

function chosenLanguage(): Language {
  const kept = globalThis.localStorage?.getItem(KEPT);
  if (kept === "en" || kept === "zh") return kept;
  return globalThis.navigator?.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = chosenLanguage();
export const words = ALL[language];

export function chooseLanguage(next: Language): void {
  localStorage.setItem(KEPT, next);
  location.reload();
}
