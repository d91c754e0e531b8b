// The data that a lock guards, in words that clang checks (-Wthread-safety, which scripts/lint asks for); nothing for other
// compilers.
//
//   int count_ GUARDED_BY(mutex_);          only with the lock
//   void add(int more) REQUIRES(mutex_);    the caller has it
//   void report() EXCLUDES(mutex_);         the caller must not have it: this function takes it
#pragma once

#if defined(__clang__)
#define SONDE_THREAD_ANNOTATION(text) __attribute__((text))
#else
#define SONDE_THREAD_ANNOTATION(text)
#endif

#define CAPABILITY(name) SONDE_THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY SONDE_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(lock) SONDE_THREAD_ANNOTATION(guarded_by(lock))
#define REQUIRES(...) SONDE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) SONDE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) SONDE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) SONDE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS SONDE_THREAD_ANNOTATION(no_thread_safety_analysis)
