# The Python package, relative to site-packages; everything else of it is pure Python (pyproject.toml, wheel.packages).
if(NOT SKBUILD_SCRIPTS_DIR)
  set(SKBUILD_SCRIPTS_DIR bin)
endif()
install(TARGETS sonde LIBRARY DESTINATION sonde COMPONENT package)
install(TARGETS sonde_python LIBRARY DESTINATION sonde COMPONENT package)
install(TARGETS sonde_mindspore LIBRARY DESTINATION sonde COMPONENT package)
install(TARGETS sonde_cli RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT package)
install(FILES python/sonde_autoload.py python/sonde_early.py python/sonde_mindspore.pth python/sonde_npu.pth DESTINATION . COMPONENT package)
# The sources of the adapter, which is built where it is used.
install(DIRECTORY adapters/torch DESTINATION sonde/adapters COMPONENT package FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h")
install(DIRECTORY include/sonde DESTINATION sonde/include COMPONENT package FILES_MATCHING PATTERN "*.h")
