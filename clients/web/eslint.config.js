import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["build", "node_modules"] },
  ...tseslint.configs.strictTypeChecked,
  { languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js"] }, tsconfigRootDir: import.meta.dirname } } },
  { rules: { "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
             "@typescript-eslint/no-non-null-assertion": "off" } },
);
